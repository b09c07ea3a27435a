SELECT 'before';
SELECT * FROM on_purpose;
