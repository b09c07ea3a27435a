with Ada.Wide_Wide_Text_IO; use Ada.Wide_Wide_Text_IO;

procedure Main is
   Line : constant Wide_Wide_String := Get_Line;
begin
   Put_Line (Line & Integer'Wide_Wide_Image (Line'Length));
end Main;
