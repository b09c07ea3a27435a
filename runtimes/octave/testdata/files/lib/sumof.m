function total = sumof(values)
  total = sum(values);
end
