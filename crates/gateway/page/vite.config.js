// Addresses are relative: a proxy may serve the page below a path. The names of the files have no hashes: the program embeds them by name.
export default {
  base: "./",
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: false,
    rollupOptions: {
      output: {
        entryFileNames: "page.js",
        assetFileNames: "page[extname]",
      },
    },
  },
};
