CREATE TABLE numbers (n INTEGER);
.import /dev/stdin numbers
SELECT sum(n) FROM numbers;
