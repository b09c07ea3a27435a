/* REXX */
parse pull line
say line length(line)
