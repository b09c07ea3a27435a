"""Has the names that code for notebooks imports from IPython, for sessions, which execute plain Python.

It is at the end of a session's path: an IPython that is installed is found before it.
"""

from glovebox_magics import UsageError, shell

__path__ = [__file__.removesuffix(".py")]
__version__ = "9.0.0"
version_info = (9, 0, 0)


def get_ipython():
    return shell


import IPython.display  # noqa: E402 it is a part of this one, which has to be there
