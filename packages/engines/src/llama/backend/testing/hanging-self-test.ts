/** Never ends. */
setInterval(() => {}, 1_000);
