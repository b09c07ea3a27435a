main :: IO ()
main = do
  line <- getLine
  putStrLn (line ++ " " ++ show (length line))
