"""How deep YAML is nested, told without recursion: PyYAML's own loaders take seconds to give up."""

from __future__ import annotations

import yaml


def deeper_than(limit: int, data: bytes | str) -> bool:
    """Return whether lists and maps stand more than `limit` deep in each other; aliases are not followed.

    What is no YAML is not deep: the loader says better what is wrong with it.
    """
    depth = 0
    try:
        # libyaml, which Helm's parser is a translation of.
        for event in yaml.parse(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > limit:
                return True
    except yaml.YAMLError as error:
        return "maximum nesting depth" in str(error)  # libyaml's own limit, a thousand.
    except UnicodeDecodeError:
        return False
    return False
