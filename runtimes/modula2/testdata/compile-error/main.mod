MODULE main;

BEGIN
  undeclared
END main.
