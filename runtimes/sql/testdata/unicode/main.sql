SELECT trim(text, char(10)) || ' ' || length(trim(text, char(10))) FROM (SELECT CAST(readfile('/dev/stdin') AS TEXT) AS text);
