/* REXX */
say "before"
call lineout "<stderr>", "on purpose"
exit 3
