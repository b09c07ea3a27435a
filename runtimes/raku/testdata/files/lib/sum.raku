our $loaded = True;
