#!/bin/sh
# Compiles the two programs of an interactive problem of Polygon: the interactor, which talks to a submission, and the
# checker, which judges what the interactor has written down.
# glovebox-language: cpp
set -e
cd "$(dirname "$0")"
c++ -O2 -o interactor interactor.cpp glovebox_testlib.cpp
c++ -O2 -o checker checker.cpp
