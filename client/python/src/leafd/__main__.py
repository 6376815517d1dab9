"""`python -m leafd`: draws ids and decodes snowflake ids."""

import argparse
import signal
import sys
from typing import List, Optional

import leafd

_BATCH = 100_000
"""The number of ids drawn and printed at a time."""


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a count is a number from 1 up, not {text}")
    return int(text)


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs the command line, and returns the exit status: 1 for a failure, 2 for wrong arguments."""
    what = "Draws unique 64-bit ids from the leafd daemon on this host."
    parser = argparse.ArgumentParser(prog="python -m leafd", description=what)
    parser.add_argument("--version", action="version", version=f"leafd {leafd.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    draw = commands.add_parser("next", help="print ids, one per line")
    draw.add_argument("tag", help="a segment tag, or a snowflake layout's name")
    draw.add_argument("-n", "--count", type=_count, default=1, help="number of ids (1)")
    draw.add_argument("--direct", action="store_true", help="draw each id directly; ids increase on this host")
    decode = commands.add_parser("decode", help="show the parts of a snowflake id")
    decode.add_argument("id", type=int)
    decode.add_argument("--layout", help="the name of one of the daemon's layouts; by default Leaf's own")
    for command in (draw, decode):
        command.add_argument("--socket", help="the daemon's socket (LEAFD_SOCKET, or where a daemon listens)")
        command.add_argument("--timeout", type=float, default=2.0, help="timeout of each call, in seconds (2)")
    options = parser.parse_args(arguments)
    try:
        with leafd.Client(options.socket, timeout=options.timeout) as client:
            if options.command == "next":
                if options.direct:
                    for _ in range(options.count):
                        print(client.next_id_direct(options.tag))
                else:
                    for drawn in range(0, options.count, _BATCH):
                        print(*client.next_ids(options.tag, min(_BATCH, options.count - drawn)), sep="\n")
            else:
                layout = client.layout(options.layout) if options.layout else leafd.LEAF
                parts = leafd.decode(options.id, layout)
                print(f"time      {parts.time.isoformat(timespec='milliseconds')}")
                print(f"worker    {parts.worker}\nsequence  {parts.sequence}\ntick      {parts.tick}")
    except leafd.Error as error:
        print(f"leafd: {error}", file=sys.stderr)
        return 2 if isinstance(error, leafd.InvalidArgumentError) else 1
    return 0


if __name__ == "__main__":
    # Exit silently on Ctrl-C or when the reader closes the pipe.
    for number in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    sys.exit(main())
