program unicode;

{$codepage utf8}

uses
  cwstring;

var
  line: UTF8String;

begin
  readln(line);
  writeln(line, ' ', length(UTF8Decode(line)));
end.
