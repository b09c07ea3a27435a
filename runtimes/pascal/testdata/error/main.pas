{$mode objfpc}
program error;

uses
  SysUtils;

begin
  writeln('before');
  flush(output);
  raise Exception.Create('on purpose');
end.
