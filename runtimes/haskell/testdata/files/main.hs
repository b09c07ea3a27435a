import Lib.Sum (total)

main :: IO ()
main = do
  text <- readFile "data/in.txt"
  writeFile "out.txt" (show (total text))
  print (total text)
