"""What the sequences of faults came to, told at the end of a run."""

from collections import Counter


def pytest_terminal_summary(terminalreporter):
    faults, survived = Counter(), 0
    for report in terminalreporter.stats.get("passed", []):
        properties = dict(report.user_properties)
        if report.when == "call" and "faults" in properties:
            survived += 1
            faults.update(properties["faults"])
    if not survived:
        return
    terminalreporter.section("faults")
    terminalreporter.line(f"{survived} sequences with {sum(faults.values())} faults and other hands survived:")
    for fault, count in sorted(faults.items()):
        terminalreporter.line(f"  {count:5} x {fault}")
