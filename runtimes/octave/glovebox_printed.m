% glovebox_printed is called by print: the figure isn't saved once more. gnuplot makes PNG and PDF by itself, without Ghostscript.
function opts = glovebox_printed (opts)
  setappdata (opts.figure, "glovebox_printed", true);
  if (strncmp (opts.devopt, "png", 3))
    opts.devopt = "pngcairo";
  elseif (any (strcmp (opts.devopt, {"pdf", "pdfwrite"})))
    opts.devopt = "pdfcairo";
  endif
endfunction
