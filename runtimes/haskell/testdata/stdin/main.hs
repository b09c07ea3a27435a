import System.Environment (getArgs)

main :: IO ()
main = do
  numbers <- map read . lines <$> getContents
  arguments <- getArgs
  putStrLn (unwords (show (sum numbers :: Int) : arguments))
