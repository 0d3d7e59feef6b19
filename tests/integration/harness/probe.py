"""What the test image's probe prints."""
import json


def lines(out, status=0, err=""):
    rows = {"": status}
    for line in out.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            raise AssertionError("not a line of the probe: %r (stderr %r)" % (line, err))
        rows[row["probe"]] = row
    return rows
