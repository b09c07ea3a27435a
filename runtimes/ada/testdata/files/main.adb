with Ada.Text_IO; use Ada.Text_IO;
with Sums;

procedure Main is
   F : File_Type;
   A, B : Integer;
begin
   Open (F, In_File, "data/in.txt");
   A := Integer'Value (Get_Line (F));
   B := Integer'Value (Get_Line (F));
   Close (F);
   Create (F, Out_File, "out.txt");
   Put_Line (F, Sums.Image (A, B));
   Close (F);
   Put_Line (Sums.Image (A, B));
end Main;
