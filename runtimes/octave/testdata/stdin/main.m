total = 0;
while ischar(line = fgetl(stdin))
  total += str2double(line);
end
printf("%s\n", strjoin([{num2str(total)}; argv()], " "));
