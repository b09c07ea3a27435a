% glovebox_train does what a first program would wait for: Octave reads its functions as they are first called, and starts
% gnuplot. It leaves no figure, and no file.
function glovebox_train ()
  evalc ("disp (magic (3)); x = 1:3, s.a = {1, 'b'}, printf ('%d\\n', sum (x)); A = [2 1; 1 3] \\ [1; 2], num2str (pi), mat2str (x)");
  file = [tempname(), ".png"];
  shown = figure ("visible", "off", "closerequestfcn", "closereq");
  plot (1:3, [1 4 9], "-o");
  title ("x");
  xlabel ("x");
  ylabel ("y");
  legend ("x");
  grid on;
  print (shown, file, "-dpng", "-S800,600");
  close (shown);
  unlink (file);
  set (0, "defaultfigure__graphics_toolkit__", "remove");
endfunction
