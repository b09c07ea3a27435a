# Says what failed in a log of go test, with the first messages of each test: CI keeps the end of a log, and there a
# failing test's servers have printed a thousand lines.

/^=== |^ *--- PASS: / { failed = 0 }
/^ *--- FAIL: / { failed = 1; messages = 0 }
/^ *--- FAIL: |^FAIL\t|^ *(panic|fatal error): |^WARNING: DATA RACE/ { end = end substr($0, 1, 300) "\n" }
/^ +[a-z0-9_]+\.go:[0-9]+: / && !/\.go:[0-9]+: output of / && failed && messages++ < 20 { end = end substr($0, 1, 500) "\n" }

END { if (end != "") printf "== what failed\n%s", end }
