MODULE main;

FROM FIO IMPORT File, OpenToRead, OpenToWrite, ReadChar, WriteChar, WriteLine, Close, StdOut, EOF;

VAR
  in, out: File;
  c: CHAR;
  sum: CARDINAL;
BEGIN
  in := OpenToRead("data/in.txt");
  sum := 0;
  LOOP
    c := ReadChar(in);
    IF EOF(in) THEN EXIT END;
    IF (c >= "0") AND (c <= "9") THEN
      sum := sum + (ORD(c) - ORD("0"))
    END
  END;
  Close(in);
  c := CHR(sum + ORD("0"));
  out := OpenToWrite("out.txt");
  WriteChar(out, c);
  WriteLine(out);
  Close(out);
  WriteChar(StdOut, c);
  WriteLine(StdOut)
END main.
