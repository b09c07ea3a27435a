SELECT 'hello, wörld';
