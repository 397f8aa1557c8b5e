// The names of the files have no hashes: the program embeds them by name. They are found beside the page, which a portal
// serves at /play/SESSION/.
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
