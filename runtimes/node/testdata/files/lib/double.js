module.exports = (x) => 2 * x;
