package Sums is
   function Image (A, B : Integer) return String;
end Sums;
