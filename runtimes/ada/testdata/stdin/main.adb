with Ada.Command_Line; use Ada.Command_Line;
with Ada.Text_IO; use Ada.Text_IO;

procedure Main is
   Sum : Integer := 0;
begin
   while not End_Of_File loop
      Sum := Sum + Integer'Value (Get_Line);
   end loop;
   declare
      Image : constant String := Integer'Image (Sum);
   begin
      Put (Image (2 .. Image'Last));
   end;
   for I in 1 .. Argument_Count loop
      Put (" " & Argument (I));
   end loop;
   New_Line;
end Main;
