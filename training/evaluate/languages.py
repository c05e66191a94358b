"""Languages of FLORES-200 that are measured: name, and code in the catalog, which follows BCP 47."""
NAMES = {
    "aeb": ("Tunisian Arabic", "aeb"), "afr": ("Afrikaans", "af"), "aka": ("Akan", "ak"), "amh": ("Amharic", "am"), "ara": ("Arabic", "ar"),
    "ary": ("Moroccan Arabic", "ary"), "arz": ("Egyptian Arabic", "arz"), "bam": ("Bambara", "bm"), "bem": ("Bemba", "bem"),
    "ben": ("Bengali", "bn"), "cjk": ("Chokwe", "cjk"), "cmn_Hans": ("Chinese", "zh"), "deu": ("German", "de"), "dik": ("Dinka", "din"),
    "dyu": ("Dyula", "dyu"), "ewe": ("Ewe", "ee"), "fon": ("Fon", "fon"), "fra": ("French", "fr"), "fuv": ("Fulfulde", "ff"),
    "gaz": ("Oromo", "om"), "hau": ("Hausa", "ha"), "hin": ("Hindi", "hi"), "ibo": ("Igbo", "ig"), "ind": ("Indonesian", "id"),
    "jpn": ("Japanese", "ja"), "kab": ("Kabyle", "kab"), "kam": ("Kamba", "kam"), "kbp": ("Kabiyè", "kbp"), "kea": ("Kabuverdianu", "kea"),
    "kik": ("Kikuyu", "ki"), "kin": ("Kinyarwanda", "rw"), "kmb": ("Kimbundu", "kmb"), "knc_Latn": ("Kanuri", "kr"), "kon": ("Kikongo", "kg"),
    "kor": ("Korean", "ko"), "lin": ("Lingala", "ln"), "lua": ("Luba-Kasai", "lua"), "lug": ("Luganda", "lg"), "luo": ("Luo", "luo"),
    "mos": ("Mossi", "mos"), "nso": ("Northern Sotho", "nso"), "nus": ("Nuer", "nus"), "nya": ("Nyanja", "ny"), "plt": ("Malagasy", "mg"),
    "por": ("Portuguese", "pt"), "run": ("Rundi", "rn"), "rus": ("Russian", "ru"), "sag": ("Sango", "sg"), "sna": ("Shona", "sn"),
    "som": ("Somali", "so"), "sot": ("Sesotho", "st"), "spa": ("Spanish", "es"), "ssw": ("Swati", "ss"), "swh": ("Swahili", "sw"),
    "tha": ("Thai", "th"), "tir": ("Tigrinya", "ti"), "tsn": ("Tswana", "tn"), "tso": ("Tsonga", "ts"), "tum": ("Tumbuka", "tum"),
    "tur": ("Turkish", "tr"), "twi": ("Twi", "tw"), "tzm": ("Tamazight", "tzm"), "umb": ("Umbundu", "umb"), "urd": ("Urdu", "ur"),
    "vie": ("Vietnamese", "vi"), "wol": ("Wolof", "wo"), "xho": ("Xhosa", "xh"), "yor": ("Yoruba", "yo"), "zul": ("Zulu", "zu"),
}
AFRIQA = {
    "swa": "Swahili", "ibo": "Igbo", "hau": "Hausa", "kin": "Kinyarwanda", "bem": "Bemba", "twi": "Twi", "yor": "Yoruba", "zul": "Zulu",
    "fon": "Fon (French passages)",
}
