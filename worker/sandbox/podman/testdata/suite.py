"""Runs modules of CPython's own tests and writes what became of each test to results.json."""

import json
import os
import sys
import unittest

from test import support

support.use_resources = []  # no network, no display, no gigabytes
support.verbose = 0
RESULTS = os.path.abspath("results.json")
outcomes = {}


class Result(unittest.TestResult):
    def addSuccess(self, test):
        outcomes.setdefault(test.id(), "ok")

    def addSkip(self, test, reason):
        outcomes[test.id()] = "skipped: " + reason

    def addFailure(self, test, error):
        outcomes[test.id()] = f"failed: {error[0].__name__}: {error[1]}"[:2000]

    addError = addFailure

    def addExpectedFailure(self, test, error):
        outcomes[test.id()] = "failed as expected"

    def addUnexpectedSuccess(self, test):
        outcomes[test.id()] = "ok, unexpectedly"

    def addSubTest(self, test, subtest, error):
        if error is not None:
            outcomes[test.id()] = f"failed: {subtest}: {error[0].__name__}: {error[1]}"[:2000]


for name in sys.argv[1:]:
    try:
        suite = unittest.defaultTestLoader.loadTestsFromName("test." + name)
    except unittest.SkipTest as reason:
        outcomes[name] = f"skipped: {reason}"
        continue
    suite.run(Result())
    os.chdir(os.path.dirname(RESULTS))
with open(RESULTS, "w") as file:
    json.dump(outcomes, file)
