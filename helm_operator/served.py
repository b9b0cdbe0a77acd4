"""A watched kind while it is served: its watch, and its chart as it is on disk now."""

from __future__ import annotations

from helm_operator.charts import Chart, changed, load_chart
from helm_operator.errors import ChartProblem, TerminalError
from helm_operator.watches import Watch


class ServedKind:
    """One entry of watches.yaml at work; a chart that changes on disk is taken up."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self._chart = watch.chart
        self._problem = ""

    @property
    def chart_token(self) -> object:
        """Differs whenever `usable_chart` would answer differently."""
        return (self._chart.info.digest, self._problem)

    def usable_chart(self) -> Chart:
        """Return the chart.

        Raises:
            TerminalError: its files are broken now (ChartError).
        """
        if self._problem:
            raise TerminalError(
                f"{self._problem}. What is deployed stays as it is; the chart is looked at again when its files change",
                reason="ChartError",
            )
        return self._chart

    def refresh(self) -> bool:
        """Look at the chart's files (blocking); return whether they give another chart now."""
        if not self._problem and not changed(self._chart):
            return False
        before = self.chart_token
        try:
            self._chart, self._problem = load_chart(self.watch.chart.path), ""
        except ChartProblem as problem:
            self._problem = str(problem)
        return self.chart_token != before
