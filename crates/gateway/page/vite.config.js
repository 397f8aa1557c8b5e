// The names of the files have no hashes: the program embeds them by name. Addresses are relative: a proxy may serve the page
// below a path, as a portal does at /play/SESSION/.
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
