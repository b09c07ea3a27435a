with Ada.Wide_Wide_Text_IO;

procedure Main is
begin
   Ada.Wide_Wide_Text_IO.Put_Line ("hello, wörld");
end Main;
