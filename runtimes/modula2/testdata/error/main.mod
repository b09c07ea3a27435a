MODULE main;

FROM FIO IMPORT StdOut, StdErr, WriteString, WriteLine, FlushBuffer;
FROM libc IMPORT exit;

BEGIN
  WriteString(StdOut, "before");
  WriteLine(StdOut);
  FlushBuffer(StdOut);
  WriteString(StdErr, "on purpose");
  WriteLine(StdErr);
  FlushBuffer(StdErr);
  exit(3)
END main.
