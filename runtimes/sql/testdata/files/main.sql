.import data/in.txt numbers --schema temp
CREATE TABLE sums AS SELECT 3 + 4 AS total;
.once out.txt
SELECT total FROM sums;
SELECT total FROM sums;
