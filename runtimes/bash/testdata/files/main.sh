mkdir out
sort data/in.txt >out/result.txt
wc -l <out/result.txt
