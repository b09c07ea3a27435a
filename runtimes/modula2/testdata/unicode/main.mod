MODULE main;

FROM StrIO IMPORT ReadString, WriteString, WriteLn;

VAR
  line: ARRAY [0 .. 99] OF CHAR;
BEGIN
  ReadString(line);
  WriteString(line);
  WriteLn
END main.
