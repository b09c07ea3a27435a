with Ada.Text_IO; use Ada.Text_IO;

procedure Main is
begin
   Put_Line ("before");
   raise Program_Error with "on purpose";
end Main;
