% glovebox_close closes a figure. Octave closes all before it ends, and nothing of the program runs then: what is open is saved first.
% A figure that the program closes is gone, as it is where there are windows: then its file is the outermost of the callers, and not close.
function glovebox_close (closed, event, home)
  persistent saved = false;
  callers = dbstack ();
  if (! saved && strcmp (callers(end).name, "close"))
    saved = true;
    n = 0;
    for each = sort (get (0, "children"))'
      if (! isempty (get (each, "children")) && ! isappdata (each, "glovebox_printed"))
        do % what has the name already is the program's own
          n += 1;
          file = fullfile (home, sprintf ("chart-%d.png", n));
        until (isempty (lstat (file)))
        try
          print (each, file, "-dpng", "-S800,600");
        catch e
          fprintf (stderr, "chart-%d.png: %s\n", n, e.message);
        end_try_catch
      endif
    endfor
  endif
  closereq ();
endfunction
