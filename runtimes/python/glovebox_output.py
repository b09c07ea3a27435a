"""Lets out what a program prints before it may be stopped, without making it slow.

Python's output to a pipe is buffered: a program that prints and then runs out of time
would seem to have printed nothing. Unbuffered, each print costs 50 µs in the sandbox,
and a program with 100,000 lines runs out of time for that. So lines go out at once as
long as they are few: 200 in a burst, 1,000 a second for ever. A program that prints more
has ordinary buffered output from then on.

Python's own line buffering lets them out, and what counts them is made of C's iterators.
So sys.stdout.write is Python's, whoever keeps it and for however long, and no frame of
this file is in a traceback of a print. A profile or a trace sees one after a burst, when
it is looked whether lines are few.
"""

import sys
from itertools import chain, repeat, starmap
from time import monotonic

_BURST = 200
_RATE = 1000


def _install():
    out = sys.stdout
    # Closed, or let out at once already: a terminal, PYTHONUNBUFFERED.
    if out is None or out.line_buffering or out.write_through:
        return
    buffer, flush, reconfigure = out.buffer, out.buffer.flush, out.reconfigure
    credit, last = 0, monotonic()

    def leave():
        """Takes out what is put in here. Whoever kept the flush still has one that works."""
        vars(buffer).pop("flush", None)
        vars(out).pop("reconfigure", None)

    def next_flushes():
        """As many flushes as there is credit for, or else all that will ever be asked for."""
        nonlocal credit, last
        now = monotonic()
        credit, last = min(_BURST, credit + (now - last) * _RATE), now
        if credit >= 1 and "flush" in vars(buffer):
            flushes = int(credit)
            credit -= flushes
            return starmap(flush, repeat((), flushes))
        if "flush" in vars(buffer):
            leave()
            try:
                reconfigure(line_buffering=False)
            except ValueError:
                pass  # it is closed, or its buffer has another owner
        return starmap(flush, repeat(()))

    def reconfigure_as_told(**options):
        if options.get("line_buffering") is not None:
            leave()  # what the program itself wants counts
        return reconfigure(**options)

    reconfigure(line_buffering=True)
    buffer.flush = chain(starmap(flush, repeat((), _BURST)), chain.from_iterable(iter(next_flushes, None))).__next__
    out.reconfigure = reconfigure_as_told


_install()
