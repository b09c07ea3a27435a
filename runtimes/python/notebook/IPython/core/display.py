"""Has the names of IPython.display where older code imports them from."""

from IPython.display import *  # noqa: F403 all of them
