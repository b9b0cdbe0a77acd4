"""What a custom resource asks for: from its spec, its watch and the chart to the desired release. Pure."""

from __future__ import annotations

from typing import Final

from helm_operator.annotations import Wishes
from helm_operator.charts import Chart
from helm_operator.release import CustomResource, DesiredRelease, ReleaseKey, release_name
from helm_operator.values import digest, values_from_spec
from helm_operator.watches import Watch, apply_overrides

_DIGEST_LENGTH: Final = 40
"""Hexadecimal digits of the input digest; a label value holds at most 63 characters."""


def release_key(resource: CustomResource) -> ReleaseKey:
    """Return where the release of a custom resource lives."""
    return ReleaseKey(resource.namespace, release_name(resource.name))


def desire(resource: CustomResource, watch: Watch, chart: Chart, wishes: Wishes | None = None) -> DesiredRelease:
    """Return the release that `resource` asks for; without `wishes`, with the options of its watch.

    The options are not in the input digest: how it is done makes no other release.

    Raises:
        TerminalError: the spec is no map, or an override does not fit it (InvalidValues).
    """
    values = apply_overrides(values_from_spec(resource.spec), watch.overrides)
    values_digest = digest(values)
    inputs = digest({"chart": chart.info.digest, "values": values_digest})
    return DesiredRelease(
        key=release_key(resource),
        owner_uid=resource.uid,
        chart=chart.info,
        chart_path=chart.path,
        values=values,
        values_digest=values_digest,
        input_digest=inputs.removeprefix("sha256:")[:_DIGEST_LENGTH],
        timeout=watch.timeout,
        wait=watch.wait,
        history_max=watch.history_max,
        install=wishes.install if wishes else watch.install,
        upgrade=wishes.upgrade if wishes else watch.upgrade,
        bulk=chart.bulk,
    )
