% glovebox_wait is called at the start of an Octave that waits for its program, before that is looked for. It draws, says
% "prepared", and returns when this process is a program's: Octave then executes that as ever.
function glovebox_wait ()
  glovebox_preload ("open", str2double (getenv ("GLOVEBOX_PRELOAD")));
  unsetenv ("GLOVEBOX_PRELOAD");
  given = own_environment ();
  glovebox_train ();
  glovebox_preload ("say", sprintf ("prepared\n%s", files ()));
  refused = "";
  try
    told = jsondecode (glovebox_preload ("hear"), "makeValidName", false);
    refused = refusal (told, given);
    if (isempty (refused))
      take_over (told, given);
    endif
  catch e
    refused = e.message;
  end_try_catch
  if (! isempty (refused))
    glovebox_preload ("say", refused);
    glovebox_preload ("exit"); % the agent starts another
  endif
  lasterror ("reset");
  lastwarn ("", "");
endfunction

% own_environment is what this process was started with.
function env = own_environment ()
  env = struct ();
  for each = strsplit (fileread ("/proc/self/environ"), "\0")
    [name, value] = strtok (each{1}, "=");
    if (! isempty (name) && ! strncmp (name, "GLOVEBOX_PRELOAD", 16))
      env.(name) = value(2:end);
    endif
  endfor
endfunction

% files are those that are mapped, one a line: the agent holds them, or the sandbox's kernel would do away with its mappings
% of each at the end.
function text = files ()
  names = unique (regexp (fileread ("/proc/self/maps"), '/[^\n]*', "match"));
  text = "";
  for each = names
    if (length (text) + length (each{1}) < 32000)
      text = [text, each{1}, "\n"];
    endif
  endfor
endfunction

% refusal says why this process can't be the program's; it is empty where it can.
function why = refusal (told, given)
  % What Octave, its libraries and the C library read as they start begins so.
  read = {"ACC_", "BLIS_", "BROWSER", "COLUMNS", "DISPLAY", "DOMTERM", "EDITOR", "EXPAT_", "FC_", "FONTCONFIG", "FREETYPE_", "GCONV_", "GFORTRAN_", "GLIBC", "GNUPLOT", "GNUTERM", "GNUTLS_", "GOMP_", ...
          "GOTO", "GSC", "G_", "HB_", "HDF5_", "HOME", "HOST", "INFO", "INPUTRC", "KPATHSEA_", "LANG", "LC_", "LD_", "LESS", "LINES", "LOCPATH", "LOGNAME", "MAGICK_", "MAKEINFO", "MALLOC_", "NCURSES_", ...
          "NLSPATH", "OCTAVE", "OMP_", "OPENBLAS", "OPENSSL_", "OUTPUT_CHARSET", "PAGER", "PANGO", "PATH", "PIXMAN_", "PWD", "SHELL", "TEMP", "TERM", "TEXMF", "TMP", "TZ", "USER", "VISUAL", "XDG_"};
  why = "";
  if (! isempty (told.args))
    why = "it has arguments";
  endif
  if (! isempty (glob (".oct-config")))
    why = "it has settings of its own";
  endif
  for each = glob ("*.m")'
    if (! all (strncmp (file_in_loadpath (each{1}, "all"), [pwd() "/"], length (pwd ()) + 1)) || exist (each{1}(1:end-2), "builtin"))
      why = ["it has an own " each{1}];
    endif
  endfor
  for each = unique ([fieldnames(told.env); fieldnames(given)])'
    name = each{1};
    same = isfield (told.env, name) && isfield (given, name) && strcmp (told.env.(name), given.(name));
    if (! same && any (cellfun (@(begin) strncmp (name, begin, length (begin)), read)))
      why = ["it has another " name];
    endif
  endfor
endfunction

% take_over gives this process everything that is the program's. Many may go on from one snapshot of it.
function take_over (told, given)
  for each = setdiff (fieldnames (given), fieldnames (told.env))'
    unsetenv (each{1});
  endfor
  for each = fieldnames (told.env)'
    if (! isfield (given, each{1}) || ! strcmp (told.env.(each{1}), given.(each{1}))) % Octave has put more into PATH
      setenv (each{1}, told.env.(each{1}));
    endif
  endfor
  rand ("seed", "reset"); % the old generator, which is all distributions' own
  rand ("twister", "reset"); % from the kernel's
  randn ("twister", "reset");
  rande ("twister", "reset");
  randg ("twister", "reset");
  randp ("twister", "reset");
  for each = fieldnames (told.limits)'
    glovebox_preload ("limit", each{1}, told.limits.(each{1}));
  endfor
  glovebox_preload ("become");
endfunction
