main :: IO ()
main = putStrLn "hello, wörld"
