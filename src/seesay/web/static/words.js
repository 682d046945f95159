// The words of the page in each language, and numbers as each writes them.

export const LANGUAGES = { en: "English", de: "Deutsch", zh: "中文" };

export const WORDS = {
  en: {
    describe: "Describe the picture", sentence: "Sentence to search for", withImage: "Search with an image",
    start: "seesay, all photos", about: "About these photos", rerank: "Re-rank", rerankHint: "Re-rank the best results with a second, slower matcher",
    yours: "Your image", point: "Point at things in it", describing: "Sentences that describe it", asked: "Query and filter",
    filter: "Filter: taken:2019 folder:italy", filterHint: "Filter, such as taken:2019 folder:italy width:>3000", years: "Years",
    gallery: "Images", scores: "Scores", retry: "Try again", close: "Close", previous: "Previous image", next: "Next image",
    similar: "Find similar", details: "Details", download: "Download", copyPath: "Copy path", copyLink: "Copy link", copied: "Copied",
    image: "Image", naming: "Sentence that names things in the image", namingExample: "two dogs chase a red ball", pointAt: "Point",
    drop: "Drop the image to find similar ones", list: "Download list", zip: "Download zip", clear: "Clear selection",
    index: "Index", update: "Look for new photos", near: "Show near-duplicates", language: "Language",
    file: "File", taken: "Taken", size: "Size", camera: "Camera", lens: "Lens", exposure: "Exposure", aperture: "Aperture", iso: "ISO",
    focal: "Focal length", score: "Score",
    unreachable: "The server cannot be reached. Is seesay serve still running?", answered: "The server answered {status}.",
    was: "was {rank}", gone: "not there any more", select: "Select {path}", selected: { one: "1 selected", other: "{count} selected" },
    tooManyToZip: "At most {count} images are put into a zip.", images: { one: "1 image", other: "{count} images" },
    sentences: { one: "1 sentence", other: "{count} sentences" }, faults: { one: "1 file could not be read", other: "{count} files could not be read" },
    updated: "Up to date: {added} new, {deleted} gone.", updating: "{done} of {total} new photos", looking: "Looking at the folder…",
    bestFor: "Best first for “{text}”", bestForBoth: "Best first for your image and “{text}”", likeYours: "Most like your image", likeThis: "Most like this photo",
    nothingFits: "Nothing fits “{text}” well.", hardly: "These hardly fit", unknown: "Not known: {words}",
    reranked: { one: "1 re-ranked", other: "{count} re-ranked" }, left: { one: "1 unreadable, listed last", other: "{count} unreadable, listed last" },
    alike: { one: "1 image", other: "{count} look alike" }, noneAlike: "No two photos look alike", noneAlikeHint: "Copies and shots of a series would be shown here.",
    nothingPasses: "Nothing passes the filter", takeAway: "Take a condition away.", empty: "No photos yet", emptyHint: "The index holds no images. Run seesay index on a folder of photos.",
    failed: "That did not work", notAnImage: "{name} is no image.", lost: "This browser no longer has that image. Drop it here again.",
    without: "Take away {text}", lookingAt: "Looking…", unknownPhrase: "no word of it is known",
  },
  de: {
    describe: "Das Bild beschreiben (englisch)", sentence: "Satz, nach dem gesucht wird", withImage: "Mit einem Bild suchen",
    start: "seesay, alle Fotos", about: "Über diese Fotos", rerank: "Neu ordnen", rerankHint: "Die besten Ergebnisse von einem zweiten, langsameren Modell ordnen lassen",
    yours: "Ihr Bild", point: "Dinge darin zeigen", describing: "Sätze, die es beschreiben", asked: "Anfrage und Filter",
    filter: "Filter: taken:2019 folder:italy", filterHint: "Filter, etwa taken:2019 folder:italy width:>3000", years: "Jahre",
    gallery: "Bilder", scores: "Werte", retry: "Noch einmal", close: "Schließen", previous: "Voriges Bild", next: "Nächstes Bild",
    similar: "Ähnliche suchen", details: "Details", download: "Herunterladen", copyPath: "Pfad kopieren", copyLink: "Link kopieren", copied: "Kopiert",
    image: "Bild", naming: "Satz, der Dinge im Bild nennt", namingExample: "two dogs chase a red ball", pointAt: "Zeigen",
    drop: "Bild loslassen, um ähnliche zu suchen", list: "Liste herunterladen", zip: "Als Zip herunterladen", clear: "Auswahl aufheben",
    index: "Index", update: "Nach neuen Fotos sehen", near: "Fast gleiche Fotos zeigen", language: "Sprache",
    file: "Datei", taken: "Aufgenommen", size: "Größe", camera: "Kamera", lens: "Objektiv", exposure: "Belichtung", aperture: "Blende", iso: "ISO",
    focal: "Brennweite", score: "Wert",
    unreachable: "Der Server ist nicht erreichbar. Läuft seesay serve noch?", answered: "Der Server antwortete mit {status}.",
    was: "vorher {rank}", gone: "nicht mehr da", select: "{path} auswählen", selected: { one: "1 ausgewählt", other: "{count} ausgewählt" },
    tooManyToZip: "Höchstens {count} Bilder kommen in ein Zip.", images: { one: "1 Bild", other: "{count} Bilder" },
    sentences: { one: "1 Satz", other: "{count} Sätze" }, faults: { one: "1 Datei war nicht lesbar", other: "{count} Dateien waren nicht lesbar" },
    updated: "Aktuell: {added} neu, {deleted} verschwunden.", updating: "{done} von {total} neuen Fotos", looking: "Der Ordner wird durchgesehen…",
    bestFor: "Die besten zuerst für „{text}“", bestForBoth: "Die besten zuerst für Ihr Bild und „{text}“", likeYours: "Ihrem Bild am ähnlichsten", likeThis: "Diesem Foto am ähnlichsten",
    nothingFits: "Nichts passt gut zu „{text}“.", hardly: "Diese passen kaum", unknown: "Unbekannt: {words}",
    reranked: { one: "1 neu geordnet", other: "{count} neu geordnet" }, left: { one: "1 unlesbar, am Ende", other: "{count} unlesbar, am Ende" },
    alike: { one: "1 Bild", other: "{count} fast gleiche" }, noneAlike: "Keine zwei Fotos sind fast gleich", noneAlikeHint: "Kopien und Serienaufnahmen stünden hier.",
    nothingPasses: "Nichts erfüllt den Filter", takeAway: "Nehmen Sie eine Bedingung weg.", empty: "Noch keine Fotos", emptyHint: "Der Index enthält keine Bilder. Rufen Sie seesay index mit einem Fotoordner auf.",
    failed: "Das ging nicht", notAnImage: "{name} ist kein Bild.", lost: "Dieser Browser hat das Bild nicht mehr. Ziehen Sie es noch einmal hierher.",
    without: "{text} wegnehmen", lookingAt: "Suche…", unknownPhrase: "kein Wort davon ist bekannt",
  },
  zh: {
    describe: "描述图片（英语）", sentence: "要搜索的句子", withImage: "以图搜图",
    start: "seesay，全部照片", about: "关于这些照片", rerank: "重新排序", rerankHint: "用第二个较慢的模型重新排列最佳结果",
    yours: "你的图片", point: "指出图中的事物", describing: "描述它的句子", asked: "查询与筛选",
    filter: "筛选：taken:2019 folder:italy", filterHint: "筛选条件，例如 taken:2019 folder:italy width:>3000", years: "年份",
    gallery: "图片", scores: "分数", retry: "重试", close: "关闭", previous: "上一张", next: "下一张",
    similar: "查找相似", details: "详情", download: "下载", copyPath: "复制路径", copyLink: "复制链接", copied: "已复制",
    image: "图片", naming: "说出图中事物的句子", namingExample: "two dogs chase a red ball", pointAt: "指出",
    drop: "松开以查找相似图片", list: "下载列表", zip: "下载压缩包", clear: "取消选择",
    index: "索引", update: "查找新照片", near: "显示近似重复", language: "语言",
    file: "文件", taken: "拍摄时间", size: "尺寸", camera: "相机", lens: "镜头", exposure: "曝光", aperture: "光圈", iso: "ISO",
    focal: "焦距", score: "分数",
    unreachable: "无法连接服务器。seesay serve 还在运行吗？", answered: "服务器返回 {status}。",
    was: "原为第 {rank}", gone: "已不存在", select: "选择 {path}", selected: { other: "已选 {count} 张" },
    tooManyToZip: "压缩包最多 {count} 张图片。", images: { other: "{count} 张图片" },
    sentences: { other: "{count} 个句子" }, faults: { other: "{count} 个文件无法读取" },
    updated: "已更新：新增 {added}，移除 {deleted}。", updating: "新照片 {done} / {total}", looking: "正在查看文件夹…",
    bestFor: "“{text}”的最佳匹配在前", bestForBoth: "你的图片与“{text}”的最佳匹配在前", likeYours: "与你的图片最相似", likeThis: "与这张照片最相似",
    nothingFits: "没有与“{text}”很匹配的照片。", hardly: "以下几乎不匹配", unknown: "未知：{words}",
    reranked: { other: "已重新排序 {count} 张" }, left: { other: "{count} 张无法读取，排在最后" },
    alike: { other: "{count} 张近似" }, noneAlike: "没有近似的照片", noneAlikeHint: "副本和连拍照片会显示在这里。",
    nothingPasses: "没有照片符合筛选条件", takeAway: "请去掉一个条件。", empty: "还没有照片", emptyHint: "索引中没有图片。请对照片文件夹运行 seesay index。",
    failed: "未能完成", notAnImage: "{name} 不是图片。", lost: "此浏览器已没有该图片，请再次拖入。",
    without: "去掉 {text}", lookingAt: "查找中…", unknownPhrase: "其中的词都不认识",
  },
};

const KEPT = "seesay-language";
const wanted = () => [localStorage.getItem(KEPT), ...navigator.languages].map((code) => code?.slice(0, 2));
let spoken = wanted().find((code) => code in WORDS) ?? "en";

export const language = () => spoken;
export const number = (value) => new Intl.NumberFormat(spoken).format(value);

// The text of that name; `count` chooses between one and several.
export function t(name, values = {}) {
  const found = WORDS[spoken][name] ?? name;
  const rule = () => new Intl.PluralRules(spoken).select(values.count);
  const text = typeof found === "string" ? found : (found[rule()] ?? found.other);
  return text.replace(/\{(\w+)\}/g, (_, key) => (typeof values[key] === "number" ? number(values[key]) : values[key]));
}

// Puts the words into the page: data-t is the text, data-t-NAME an attribute.
export function translate(root = document) {
  document.documentElement.lang = spoken;
  for (const element of root.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
  for (const attribute of ["aria-label", "title", "placeholder"]) {
    for (const element of root.querySelectorAll(`[data-t-${attribute}]`)) {
      element.setAttribute(attribute, t(element.getAttribute(`data-t-${attribute}`)));
    }
  }
}

export function speak(code) {
  spoken = code;
  localStorage.setItem(KEPT, code);
  translate();
  dispatchEvent(new Event("languagechange"));
}
