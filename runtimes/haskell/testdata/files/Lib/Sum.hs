module Lib.Sum (total) where

total :: String -> Int
total = sum . map read . lines
