// The names of the files contain no hashes, because the program embeds the files by name.
export default {
  base: "/",
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
