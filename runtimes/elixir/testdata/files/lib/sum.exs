defmodule Sum do
  def of(text), do: text |> String.split() |> Enum.map(&String.to_integer/1) |> Enum.sum()
end
