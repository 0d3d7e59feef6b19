"""The one output form of all benches, and what they share."""
import statistics


def percentile(values, p):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * p / 100))]


median = statistics.median


class Report:
    """Prints a line a figure as it comes; `short` counts the missed targets."""

    def __init__(self):
        self.short = 0
        print("\t".join(["figure", "peer", "peer_value", "ours", "unit", "ratio", "target", "verdict"]), flush=True)

    def line(self, figure, peer, peer_value, ours, unit, target, met, recorded=False):
        ratio = "%.3f" % (ours / peer_value) if peer_value else "-"
        verdict = "recorded" if recorded else "ok" if met else "short"
        self.short += verdict == "short"
        text = [figure, peer or "-", "%.4g" % peer_value if peer_value is not None else "-", "%.4g" % ours, unit, ratio, target, verdict]
        print("\t".join(text), flush=True)

    def at_most(self, figure, ours, unit, limit, peer=None, peer_value=None, recorded=False):
        """A figure with an absolute limit."""
        self.line(figure, peer, peer_value, ours, unit, "<= %g %s" % (limit, unit), ours <= limit, recorded)

    def ratio(self, figure, peer, peer_value, ours, unit, limit, recorded=False):
        """A figure that may be at most `limit` times the peer's of the same run."""
        self.line(figure, peer, peer_value, ours, unit, "<= %g x" % limit, ours <= limit * peer_value, recorded)
